{{/* The prefix of all names: at most 34 characters, so that a driver's key (20) and "-webhook" fit into 63. */}}
{{- define "dradriver.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := default (ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name)) .Values.fullnameOverride -}}
{{- /* A release's name may have dots, that of a Service may not. */ -}}
{{- $name = $name | replace "." "-" -}}
{{- if gt (len $name) 34 -}}
{{- printf "%s-%s" ($name | trunc 25 | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The enabled drivers, by key, each with the defaults under its own settings; YAML. */}}
{{- define "dradriver.drivers" -}}
{{- $drivers := dict -}}
{{- $user := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 -}}
{{- $pool := dict "podSecurityContext" $user "tolerations" list "priorityClassName" "system-cluster-critical" -}}
{{- /* What is of a node only, the schema refuses among a pool driver's own settings. */ -}}
{{- $pool = merge $pool (dict "paths" list "hostNetwork" false "multiNodeClaims" false "readConfigMaps" list "webhook" (dict "enabled" false)) -}}
{{- range $key, $given := .Values.drivers -}}
{{- $kind := dict "kind" "node" "bindingDriver" false -}}
{{- $driver := mergeOverwrite $kind (deepCopy $.Values.driverDefaults) (ternary (deepCopy $pool) dict (eq (dig "kind" "node" $given) "pool")) (deepCopy $given) -}}
{{- if $driver.enabled -}}
{{- $_ := set $drivers $key $driver -}}
{{- end -}}
{{- end -}}
{{- toYaml $drivers -}}
{{- end -}}

{{/*
The templates below take a scope: dict "root" $ "key" KEY "driver" DRIVER.
One name for DaemonSet or Deployment, ServiceAccount, role and policy of a driver: nothing else may compute it.
*/}}
{{- define "dradriver.driver.name" -}}
{{- printf "%s-%s" (include "dradriver.fullname" .root) .key -}}
{{- end -}}

{{- define "dradriver.webhook.name" -}}
{{- printf "%s-webhook" (include "dradriver.driver.name" .) -}}
{{- end -}}

{{/* The user as whom a driver's pods talk to the API server. */}}
{{- define "dradriver.driver.user" -}}
{{- printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "dradriver.driver.name" .) -}}
{{- end -}}

{{- define "dradriver.selectorLabels" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ printf "%s%s" .key (ternary "-webhook" "" (hasKey . "webhook")) | quote }}
{{- end -}}

{{- define "dradriver.labels" -}}
{{ include "dradriver.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dradriver.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (deepCopy .driver.image) -}}
{{- $repository := required (printf "image.repository (or drivers.%s.image.repository) is needed: where the driver's image is" .key) $image.repository -}}
image: {{ if $image.digest -}}
{{ printf "%s@%s" $repository $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $repository (default .root.Chart.AppVersion $image.tag) | quote }}
{{- end }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}

{{/*
The folder of the kubelet's plugins that a driver gets to see: its own. Its socket goes one level up where the
path would be too long for a socket (107 bytes, 14 of them for the name), and then it needs the parent.
*/}}
{{- define "dradriver.pluginsMount" -}}
{{- $plugins := printf "%s/plugins" (trimSuffix "/" .root.Values.kubeletRootDir) -}}
{{- $own := printf "%s/%s" $plugins .driver.driverName -}}
{{- ternary $own $plugins (le (add (len $own) 14) 107) -}}
{{- end -}}
