{{/* The scope of the scheduler for the templates of a driver. */}}
{{- define "dradriver.scheduler.scope" -}}
{{- dict "key" "scheduler" "path" "scheduler" "driver" .Values.scheduler | toYaml -}}
{{- end -}}

{{/*
The KubeSchedulerConfiguration, as `dradriver scheduler config` writes it:
tests/packaging/test_the_chart_runs_a_scheduler.py compares them.
*/}}
{{- define "dradriver.scheduler.config" -}}
{{- $scheduler := .root.Values.scheduler -}}
{{- $target := dict "urlPrefix" (printf "http://127.0.0.1:%d" ($scheduler.port | int)) "nodeCacheCapable" true "ignorable" false -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: {{ $scheduler.kubeScheduler.qps | int }}
  burst: {{ $scheduler.kubeScheduler.burst | int }}
leaderElection:
  leaderElect: true
  leaseDuration: 9s
  renewDeadline: 6s
  retryPeriod: 1.2s
  resourceLock: leases
  resourceName: {{ include "dradriver.driver.name" . }}-kube-scheduler
  resourceNamespace: {{ .root.Release.Namespace | quote }}
# Otherwise kube-scheduler passes only some of the nodes to the extender.
percentageOfNodesToScore: 100
profiles:
  {{- range $scheduler.schedulerNames }}
  - schedulerName: {{ . | quote }}
    plugins:
      multiPoint:
        disabled:
          - name: DynamicResources
  {{- end }}
# Two entries, because an entry has one time limit for all of its verbs.
extenders:
  - filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    weight: {{ ternary 1000 1 (eq $scheduler.order "packed") }}
    httpTimeout: 5s
    {{- toYaml $target | nindent 4 }}
  # The time limit for binding conditions, and 30 s for the writes.
  - bindVerb: bind
    httpTimeout: {{ add ($scheduler.bindingTimeoutSeconds | int) 30 }}s
    {{- toYaml $target | nindent 4 }}
{{- end -}}

{{/* The image of kube-scheduler: by default of the version of the cluster, without the suffix of a vendor. */}}
{{- define "dradriver.scheduler.kubeSchedulerImage" -}}
{{- $image := .Values.scheduler.kubeScheduler.image -}}
{{- $repository := required "scheduler.kubeScheduler.image.repository: the repository of the image kube-scheduler is required" $image.repository -}}
{{- $version := regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version -}}
image: {{ if $image.digest -}}
{{ printf "%s@%s" $repository $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $repository (default $version $image.tag) | quote }}
{{- end }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end -}}
