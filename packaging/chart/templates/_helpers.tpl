{{/* The prefix of all names: at most 34 characters, so that a driver's key (20) and "-webhook" fit in 63. */}}
{{- define "dradriver.fullname" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := default (ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name)) .Values.fullnameOverride -}}
{{- /* The name of a release can have dots, the name of a Service cannot. */ -}}
{{- $name = $name | replace "." "-" -}}
{{- if gt (len $name) 34 -}}
{{- printf "%s-%s" ($name | trunc 25 | trimSuffix "-") (sha256sum $name | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The enabled drivers by key, as YAML. Own settings of a driver override the defaults. */}}
{{- define "dradriver.drivers" -}}
{{- $drivers := dict -}}
{{- $user := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 -}}
{{- $pool := dict "podSecurityContext" $user "tolerations" list "priorityClassName" "system-cluster-critical" -}}
{{- /* The schema rejects these settings of nodes in drivers without a node. The defaults must not apply either. */ -}}
{{- $pool = merge $pool (dict "paths" list "hostNetwork" false "hostPID" false "multiNodeClaims" false "readConfigMaps" list "webhook" (dict "enabled" false)) -}}
{{- range $key, $given := .Values.drivers -}}
{{- $kind := dict "kind" "node" "bindingDriver" false "controllerDriver" false "nodeReleases" false "kubeletPlugins" list "parameterKinds" list -}}
{{- $driver := mergeOverwrite $kind (deepCopy $.Values.driverDefaults) (ternary dict (deepCopy $pool) (eq (dig "kind" "node" $given) "node")) (deepCopy $given) -}}
{{- if or (eq $driver.kind "controller") $driver.controllerDriver -}}
{{- $_ := set $driver "kubeletPlugins" (default (list $driver.driverName) $driver.kubeletPlugins) -}}
{{- end -}}
{{- if $driver.enabled -}}
{{- $_ := set $drivers $key $driver -}}
{{- end -}}
{{- end -}}
{{- toYaml $drivers -}}
{{- end -}}

{{/* Not empty if the settings of a driver need a DeviceClass: dict "class" CLASS "settings" SETTINGS. */}}
{{- define "dradriver.class.applies" -}}
{{- $setting := splitList "=" (default "" .class.ifSetting) -}}
{{- $given := get .settings (first $setting) -}}
{{- if or (not .class.ifSetting) (and $given (or (eq (len $setting) 1) (eq (toString $given) (last $setting)))) -}}
true
{{- end -}}
{{- end -}}

{{/*
The templates below take a scope: dict "root" $ "key" KEY "driver" DRIVER.
This is the only place that computes the name of a driver's DaemonSet or Deployment, ServiceAccount, role and policy.
*/}}
{{- define "dradriver.driver.name" -}}
{{- printf "%s-%s" (include "dradriver.fullname" .root) .key -}}
{{- end -}}

{{- define "dradriver.webhook.name" -}}
{{- printf "%s-webhook" (include "dradriver.driver.name" .) -}}
{{- end -}}

{{/* The user name of a driver's pods at the API server. */}}
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
{{- $path := default (printf "drivers.%s" .key) .path -}}
{{- $repository := required (printf "image.repository or %s.image.repository: the repository of the image is required" $path) $image.repository -}}
image: {{ if $image.digest -}}
{{ printf "%s@%s" $repository $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $repository (default .root.Chart.AppVersion $image.tag) | quote }}
{{- end }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}

{{/*
The mounted folder of the kubelet's plugins: the driver's own folder. If the path of its socket would be longer than
107 bytes (14 of them for the name), the socket is one level up, and the parent folder is mounted.
*/}}
{{- define "dradriver.pluginsMount" -}}
{{- $plugins := printf "%s/plugins" (trimSuffix "/" .root.Values.kubeletRootDir) -}}
{{- $own := printf "%s/%s" $plugins .driver.driverName -}}
{{- ternary $own $plugins (le (add (len $own) 14) 107) -}}
{{- end -}}
