{{/* The head of a policy without effect until it is bound. Arguments: root, name. Keys of `spec` follow, indented by two. */}}
{{- define "gpu-booking.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
{{- end }}

{{/*
Puts a policy into force: what it refuses is also recorded in the API server's audit log, with the policy's name.
Arguments: root, name.
*/}}
{{- define "gpu-booking.in-force" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels: {{- include "gpu-booking.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny, Audit]
{{- end }}

{{/* Namespaces for which the webhook is called, so that pods there have its annotations. Argument: the root context. */}}
{{- define "gpu-booking.where-the-webhook-is-asked" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ append .Values.admission.excludedNamespaces .Release.Namespace | uniq | toJson }}
{{- end }}

{{/* A part's user name, quoted for CEL. Arguments: root, account. */}}
{{- define "gpu-booking.user" -}}
'system:serviceaccount:{{ .root.Release.Namespace }}:{{ .account }}'
{{- end }}

{{/* CEL: whether the caller is an administrator of GPU Booking, which is a matter of RBAC. */}}
{{- define "gpu-booking.administers" -}}
authorizer.group('gpu-booking.io').resource('bookings').check('administer').allowed()
{{- end }}

{{/* The end of every refusal from which administrators are exempt: how somebody becomes one. */}}
{{- define "gpu-booking.administrators" -}}
Administrators may: RBAC gives them the verb administer on bookings.gpu-booking.io.
{{- end }}

{{/* CEL: whether a key is ours alone to write. Argument: the variable's name. */}}
{{- define "gpu-booking.is-ours" -}}
({{ . }} == 'terminate-at' || {{ . }}.startsWith('state.gpu-booking.io/'))
{{- end }}

{{/*
CEL: our keys that an update adds, changes or removes: annotations, labels and finalizers, as a list. A map or list that has
not changed is skipped: for a pod with tens of thousands of keys the API server would otherwise compute for half a minute at
each write of the pod's kubelet.
*/}}
{{- define "gpu-booking.changed" -}}
{{- range $part := list "annotations" "labels" -}}
(oldObject != null && object.metadata.?{{ $part }} == oldObject.metadata.?{{ $part }} ? []
: object.metadata.?{{ $part }}.orValue({}).map(k, {{ include "gpu-booking.is-ours" "k" }}
  && !(oldObject != null && k in oldObject.metadata.?{{ $part }}.orValue({})
    && oldObject.metadata.{{ $part }}[k] == object.metadata.{{ $part }}[k]), k)
+ (oldObject == null ? [] : oldObject.metadata.?{{ $part }}.orValue({}).map(k, {{ include "gpu-booking.is-ours" "k" }}
  && !(k in object.metadata.?{{ $part }}.orValue({})), k)))
+ {{ end -}}
(oldObject != null && object.metadata.?finalizers == oldObject.metadata.?finalizers ? []
: object.metadata.?finalizers.orValue([]).filter(k, {{ include "gpu-booking.is-ours" "k" }}
  && !(oldObject != null && k in oldObject.metadata.?finalizers.orValue([])))
+ (oldObject == null ? [] : oldObject.metadata.?finalizers.orValue([]).filter(k, {{ include "gpu-booking.is-ours" "k" }}
  && !(k in object.metadata.?finalizers.orValue([])))))
{{- end }}

{{/* CEL: whether a pod asks for GPUs, as cluster/names.py and the webhook define it; an amount of 0 asks for none. */}}
{{- define "gpu-booking.asks-for-gpus" -}}
(dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))).exists(c,
  [c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(amounts,
    amounts.exists(r, (r in ['nvidia.com/gpu', 'nvidia.com/gpu.shared'] || r.startsWith('nvidia.com/mig-'))
      && quantity(amounts[r]).compareTo(quantity('0')) != 0)))
{{- end }}

{{/*
CEL: whether a pod asks for GPUs or, in the words that the settings understand, for a share of one. Admission leaves such
words only on pods that request GPUs. Where GPUs are what counts, not what is asked, `asks-for-gpus` must be used: an
annotation gives none.
*/}}
{{- define "gpu-booking.asks-in-any-words" -}}
{{- $amounts := list }}
{{- if has "hami" .Values.sharing.dialects }}
{{- $amounts = concat $amounts (list "nvidia.com/gpumem" "nvidia.com/gpumem-percentage" "nvidia.com/gpucores") }}
{{- end }}
{{- if has "gpushare" .Values.sharing.dialects }}{{ $amounts = append $amounts "aliyun.com/gpu-mem" }}{{ end -}}
({{ include "gpu-booking.asks-for-gpus" . }}
{{- if $amounts }}
|| (dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))).exists(c,
  [c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(amounts,
    amounts.exists(r, r in {{ $amounts | toJson }} && quantity(amounts[r]).compareTo(quantity('0')) != 0)
    && !amounts.exists(r, r in ['nvidia.com/gpu', 'nvidia.com/gpu.shared'] && quantity(amounts[r]).compareTo(quantity('0')) == 0)))
{{- end }}
{{- if has "kai" .Values.sharing.dialects }}
|| object.metadata.?annotations.orValue({}).exists(k, k in ['gpu-fraction', 'gpu-memory'])
{{- end }})
{{- end }}

{{/* CEL: whether a pod asks for an extended resource. Argument: a condition on its name `r`, and on `amounts[r]`. */}}
{{- define "gpu-booking.asks-by-extended-resource" -}}
(dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([]))).exists(c,
  [c.?resources.?requests.orValue({}), c.?resources.?limits.orValue({})].exists(amounts,
    amounts.exists(r, {{ . }})))
{{- end }}

{{/*
CEL: whether Kubernetes may make a claim for a pod's extended resources. Which ones a DeviceClass names cannot be known in a
match condition; the rest of them is sorted out by the webhook.
*/}}
{{- define "gpu-booking.may-be-by-claim" -}}
{{ include "gpu-booking.asks-by-extended-resource" "r.contains('/') && (!r.contains('kubernetes.io/') || r.startsWith('deviceclass.resource.kubernetes.io/'))" }}
{{- end }}

{{/* CEL: whether a pod has claims, or gets one by Kubernetes' own resource name for a DeviceClass. */}}
{{- define "gpu-booking.has-claims" -}}
(object.spec.?resourceClaims.orValue([]).size() > 0
|| {{ include "gpu-booking.asks-by-extended-resource" "r.startsWith('deviceclass.resource.kubernetes.io/')" }})
{{- end }}

{{/* CEL: the words by which a message names the pod. */}}
{{- define "gpu-booking.pod" -}}
'Pod ' + object.metadata.?name.orValue(object.metadata.?generateName.orValue('without a name'))
{{- end }}

{{/* Namespaces whose pods without a GPU see none. */}}
{{- define "gpu-booking.where-nothing-is-visible" -}}
matchLabels:
  gpu-booking.io/no-visible-devices: "true"
{{- end }}

{{/*
The end of a refusal of what another webhook did after ours: how to find that webhook, and what to do. The text stands in
quotes of CEL.
*/}}
{{- define "gpu-booking.which-webhook" -}}
a webhook that is asked after zz-gpu-booking-admission has done that. kubectl get mutatingwebhookconfigurations lists them
in the order in which they are asked, and the audit log of the API server names those that changed the pod
(mutation.webhook.admission.k8s.io). An administrator must give that configuration a name that is before
gpu-booking-admission, or keep it from pods with GPUs.
{{- end }}
