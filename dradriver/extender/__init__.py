"""The HTTP extender: places pods with devices for a kube-scheduler whose DynamicResources plugin is off.

kube-scheduler calls the verbs `filter`, `prioritize`, `preempt` and `bind` (`protocol`). Reserve, PreBind, Bind
and Unreserve all happen inside the call `bind`, with the pipeline of `dradriver.control.scheduler`.
"""
