{{/* The Secret with the webhook's certificate. */}}
{{- define "dradriver.webhook.secret" -}}
{{- if eq .driver.webhook.certificate "secret" -}}
{{- required (printf "drivers.%s.webhook.secretName: required for certificate: secret" .key) .driver.webhook.secretName -}}
{{- else -}}
{{- printf "%s-tls" (include "dradriver.webhook.name" .) -}}
{{- end -}}
{{- end -}}

{{/* The certificate of the selected kind, and the webhook configuration that trusts it. */}}
{{- define "dradriver.webhook.certificate" -}}
{{- $certificate := .driver.webhook.certificate -}}
{{- if eq $certificate "generated" -}}
{{- $scope := set . "tls" (include "dradriver.webhook.generated" . | fromYaml) -}}
{{ include "dradriver.webhook.generatedSecret" $scope }}
{{ include "dradriver.webhook.configuration" (set $scope "caBundle" (get $scope.tls "ca.crt")) }}
{{- else if eq $certificate "cert-manager" -}}
{{ include "dradriver.webhook.certManager" . }}
{{ include "dradriver.webhook.configuration" . }}
{{- else -}}
{{- $pem := required (printf "drivers.%s.webhook.caBundle: required for certificate: secret" .key) .driver.webhook.caBundle -}}
{{ include "dradriver.webhook.configuration" (set . "caBundle" (b64enc $pem)) }}
{{- end -}}
{{- end -}}

{{/* ca.crt, tls.crt and tls.key in base64: those of the installed release, or new ones for ten years. */}}
{{- define "dradriver.webhook.generated" -}}
{{- $service := printf "%s.%s" (include "dradriver.webhook.name" .) .root.Release.Namespace -}}
{{- $there := lookup "v1" "Secret" .root.Release.Namespace (include "dradriver.webhook.secret" .) -}}
{{- if and $there (hasKey (default dict $there.data) "ca.crt") -}}
{{- toYaml $there.data -}}
{{- else -}}
{{- $authority := genCA $service 3650 -}}
{{- $names := list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) -}}
{{- $signed := genSignedCert $service nil $names 3650 $authority -}}
{{- dict "ca.crt" (b64enc $authority.Cert) "tls.crt" (b64enc $signed.Cert) "tls.key" (b64enc $signed.Key) | toYaml -}}
{{- end -}}
{{- end -}}

{{- define "dradriver.webhook.generatedSecret" -}}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ include "dradriver.webhook.secret" . }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "dradriver.labels" . | nindent 4 }}
type: kubernetes.io/tls
data:
  {{- toYaml .tls | nindent 2 }}
{{- end -}}

{{- define "dradriver.webhook.certManager" -}}
{{- $name := include "dradriver.webhook.name" . -}}
{{- $service := printf "%s.%s" $name .root.Release.Namespace -}}
{{- if not .driver.webhook.issuerRef }}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "dradriver.labels" . | nindent 4 }}
spec:
  selfSigned: {}
{{- end }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "dradriver.labels" . | nindent 4 }}
spec:
  secretName: {{ include "dradriver.webhook.secret" . }}
  dnsNames:
    - {{ $service }}.svc
    - {{ $service }}.svc.cluster.local
  issuerRef:
    {{- toYaml (default (dict "kind" "Issuer" "name" $name) .driver.webhook.issuerRef) | nindent 4 }}
{{- end -}}

{{- define "dradriver.webhook.configuration" -}}
{{- $name := include "dradriver.webhook.name" . }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: {{ $name }}
  labels:
    {{- include "dradriver.labels" . | nindent 4 }}
  {{- if eq .driver.webhook.certificate "cert-manager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .root.Release.Namespace }}/{{ $name }}
  {{- end }}
webhooks:
  # The name needs at least three parts; the driver's name can have only one.
  - name: {{ printf "parameters.%s%s" .driver.driverName (ternary "" ".dradriver" (contains "." .driver.driverName)) }}
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: {{ .driver.webhook.failurePolicy }}
    timeoutSeconds: {{ .driver.webhook.timeoutSeconds | int }}
    clientConfig:
      service:
        name: {{ $name }}
        namespace: {{ .root.Release.Namespace | quote }}
        path: /validate-resource-claim-parameters
        port: 443
      {{- with .caBundle }}
      caBundle: {{ . }}
      {{- end }}
    rules:
      - apiGroups: [resource.k8s.io]
        apiVersions: [v1, v1beta1, v1beta2]
        operations: [CREATE, UPDATE]
        resources: [resourceclaims, resourceclaimtemplates, deviceclasses]
    # Objects without parameters for this driver are not sent to the webhook.
    matchConditions:
      - name: has-parameters-for-the-driver
        expression: >-
          (object.spec.?devices.?config.orValue([]) + object.spec.?spec.?devices.?config.orValue([]) +
          object.spec.?config.orValue([])).exists(config, config.?opaque.?driver.orValue('') {{ .root.Values.classic.enabled | ternary (printf "in ['%s', 'classic.dradriver.dev']" .driver.driverName) (printf "== '%s'" .driver.driverName) }})
{{- end -}}
