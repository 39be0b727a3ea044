{{/* The permissions of a controller that allocates claims (KEP-3063). The scope is its driver. */}}
{{- define "dradriver.controller.rules" -}}
# Find claims, and add the finalizer before any side effect.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims]
  verbs: [get, list, watch, patch]
# Write and clear allocations. The API server checks both resources. The policy in allocationpolicy.yaml limits the
# writes to claims with the finalizer.
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/status, resourceclaims/binding]
  verbs: [patch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# The negotiation with the scheduler: read the nodes, and write the answers.
- apiGroups: [classic.dradriver.dev]
  resources: [podschedulingcontexts]
  verbs: [list, watch]
- apiGroups: [classic.dradriver.dev]
  resources: [podschedulingcontexts/status]
  verbs: [patch]
# The controller's own records. `patch` takes over the records of another process.
- apiGroups: [classic.dradriver.dev]
  resources: [controllerallocations]
  verbs: [get, list, watch, create, patch, delete]
# Find out whether a process with a Lease in another namespace has ended.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .driverName | quote }}]
  verbs: [get]
# The policies ask for this permission: answers and records are only for this controller.
- apiGroups: [classic.dradriver.dev]
  resources: [controllers]
  resourceNames: [{{ .driverName | quote }}]
  verbs: [negotiate]
{{- range .parameterKinds }}
# Read objects that `parametersRef` names.
- apiGroups: [{{ .apiGroup | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* The kubelet plugins whose devices controllers allocate, as a JSON list: for the scheduler's requests to deallocate. */}}
{{- define "dradriver.classic.plugins" -}}
{{- $plugins := .Values.classic.kubeletPlugins -}}
{{- range $driver := include "dradriver.drivers" . | fromYaml -}}
{{- $plugins = concat $plugins $driver.kubeletPlugins -}}
{{- end -}}
{{- toJson ($plugins | uniq | sortAlpha) -}}
{{- end -}}
