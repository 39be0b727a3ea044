module example.com/redfish-walker

go 1.26.0

require github.com/stmcginnis/gofish v0.20.0
