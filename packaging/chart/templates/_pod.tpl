{{/* The pod template of a driver: for the DaemonSet of a node's driver and the Deployment of a pool driver or controller. */}}
{{- define "dradriver.pod" -}}
{{- $driver := .driver -}}
{{- $root := .root -}}
{{- $node := eq $driver.kind "node" -}}
{{- $kubelet := trimSuffix "/" $root.Values.kubeletRootDir -}}
metadata:
  labels:
    {{- include "dradriver.selectorLabels" . | nindent 4 }}
    {{- with merge (deepCopy $driver.podLabels) $root.Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: driver
    {{- with $driver.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "dradriver.driver.name" . }}
  automountServiceAccountToken: true
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $driver.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if $driver.hostPID }}
  hostPID: true
  {{- end }}
  {{- if $driver.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $driver.terminationGracePeriodSeconds | int }}
  securityContext:
    {{- toYaml $driver.podSecurityContext | nindent 4 }}
  containers:
    - name: driver
      {{- include "dradriver.image" . | nindent 6 }}
      command:
        {{- toYaml $driver.command | nindent 8 }}
      args:
        {{- toYaml (default (list "run" .key) $driver.args) | nindent 8 }}
      env:
        {{- if $node }}
        - name: NODE_NAME
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        - name: POD_UID
          valueFrom:
            fieldRef:
              fieldPath: metadata.uid
        - name: DRADRIVER_PLUGINS_DIR
          value: {{ printf "%s/plugins" $kubelet | quote }}
        - name: DRADRIVER_REGISTRY_DIR
          value: {{ printf "%s/plugins_registry" $kubelet | quote }}
        - name: DRADRIVER_CDI_DIR
          value: {{ $root.Values.cdiDir | quote }}
        {{- end }}
        - name: DRADRIVER_METRICS_PORT
          value: {{ $driver.metricsPort | int | quote }}
        - name: DRADRIVER_LOG_FORMAT
          value: {{ $driver.logFormat }}
        - name: DRADRIVER_LOG_LEVEL
          value: {{ $driver.logLevel }}
        {{- with $root.Values.apiServer.host }}
        - name: KUBERNETES_SERVICE_HOST
          value: {{ . | quote }}
        - name: KUBERNETES_SERVICE_PORT
          value: {{ $root.Values.apiServer.port | int | quote }}
        {{- end }}
        {{- with $driver.owner }}
        - name: DRADRIVER_OWNER
          value: {{ . | quote }}
        {{- end }}
        {{- with $driver.settings }}
        - name: {{ required (printf "drivers.%s.settingsVariable: required if settings are set, because the driver reads them from this variable" $.key) $driver.settingsVariable }}
          value: {{ toYaml . | quote }}
        {{- end }}
        {{- with $driver.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: metrics
          containerPort: {{ $driver.metricsPort | int }}
          protocol: TCP
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $driver.startupProbe | nindent 8 }}
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        {{- toYaml $driver.livenessProbe | nindent 8 }}
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        {{- toYaml $driver.readinessProbe | nindent 8 }}
      resources:
        {{- toYaml $driver.resources | nindent 8 }}
      securityContext:
        {{- $rights := deepCopy $driver.securityContext }}
        {{- if $rights.privileged }}
        # Required with `privileged`: the API server would reject the default `false`.
        {{- $_ := set $rights "allowPrivilegeEscalation" true }}
        {{- end }}
        {{- toYaml $rights | nindent 8 }}
      # Not in /dev, which can be a folder of the node.
      terminationMessagePath: /termination-log
      terminationMessagePolicy: FallbackToLogsOnError
      volumeMounts:
        {{- if $node }}
        - name: plugins
          mountPath: {{ include "dradriver.pluginsMount" . }}
        - name: registry
          mountPath: {{ $kubelet }}/plugins_registry
        - name: cdi
          mountPath: {{ $root.Values.cdiDir }}
        {{- end }}
        {{- range $index, $path := $driver.paths }}
        - name: path-{{ $index }}
          mountPath: {{ default $path.path $path.mountPath }}
          readOnly: {{ dig "readOnly" true $path }}
          {{- with $path.mountPropagation }}
          mountPropagation: {{ . }}
          {{- end }}
        {{- end }}
        {{- with $driver.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if $node }}
    - name: plugins
      hostPath:
        path: {{ include "dradriver.pluginsMount" . }}
        type: DirectoryOrCreate
    # Must exist. If it is missing, kubeletRootDir is wrong, and an event of the pod reports it.
    - name: registry
      hostPath:
        path: {{ $kubelet }}/plugins_registry
        type: Directory
    - name: cdi
      hostPath:
        path: {{ $root.Values.cdiDir }}
        type: DirectoryOrCreate
    {{- end }}
    {{- range $index, $path := $driver.paths }}
    - name: path-{{ $index }}
      hostPath:
        path: {{ $path.path }}
        type: {{ default "" $path.type | quote }}
    {{- end }}
    {{- with $driver.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $driver.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $driver.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $driver.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
