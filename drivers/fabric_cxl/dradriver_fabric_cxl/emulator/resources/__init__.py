"""The tree of Redfish resources."""
