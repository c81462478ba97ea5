{{/*
What is said after an installation, of this cluster: with its facts where Helm may ask it (`helm install`, `helm upgrade`,
`--dry-run=server`), without them elsewhere.
*/}}

{{/* Where people come in. */}}
{{- define "gpu-booking.notesAddress" -}}
{{- $forward := printf "kubectl port-forward --namespace %s service/gpu-booking-server 8480:80" .Release.Namespace -}}
{{- with .Values.server.url -}}
{{- $url := urlParse . -}}
{{- $here := has $url.hostname (list "localhost" "127.0.0.1" "::1") }}
  {{ . }}
{{- if and $here (eq $.Values.server.service.type "ClusterIP") (not $.Values.server.external) }}
  once this forwards the port on your machine:
  kubectl port-forward --namespace {{ $.Release.Namespace }} service/gpu-booking-server {{ splitList ":" $url.host | rest | first | default "80" }}:80
{{- else if and (not $here) (ne $url.scheme "https") }}
  Browsers cannot sign in there: away from their own machine they keep a session over https only.
{{- end }}
{{- if $.Values.server.ingress.enabled }}
{{- $ingress := lookup "networking.k8s.io/v1" "Ingress" $.Release.Namespace "gpu-booking-server" | default dict }}
{{- $found := include "gpu-booking.notesBalancer" $ingress }}
  {{ $url.hostname }} must lead to {{ $found | default "the ingress controller, whose address is not known yet" }}.
{{- end }}
{{- else }}
  http://localhost:8480, once this forwards the port on your machine:
  {{ $forward }}
  Users of the command line give it by --url, until server.url names an address.
{{- end -}}
{{- if ne .Values.server.service.type "ClusterIP" }}
{{- $service := lookup "v1" "Service" .Release.Namespace "gpu-booking-server" | default dict }}
{{- range (($service.spec | default dict).ports) }}{{ with .nodePort }}
  The Service is also at port {{ . }} of every node, without TLS.
{{- end }}{{ end }}
{{- with include "gpu-booking.notesBalancer" $service }}
  The Service is also at {{ . }}, without TLS.
{{- end }}
{{- end }}
{{- end }}

{{/* The addresses that a load balancer has given an object. Argument: a Service or an Ingress. */}}
{{- define "gpu-booking.notesBalancer" -}}
{{- $found := list -}}
{{- range (((.status | default dict).loadBalancer | default dict).ingress) -}}
{{- $found = append $found (.hostname | default .ip) -}}
{{- end -}}
{{- join ", " $found -}}
{{- end }}

{{/* How people sign in. */}}
{{- define "gpu-booking.notesSignIn" -}}
{{- with .Values.server.oidc.issuer }}
  With {{ . }}. It must know {{ $.Values.server.url | default "SERVER-URL" | trimSuffix "/" }}/login/callback as a redirect address.
{{- else }}
  With a token of this cluster, pasted on the page: kubectl create token NAME --namespace NAMESPACE --audience gpu-booking
{{- if not .Values.identityRules }}
  identityRules is empty, so a ServiceAccount's token gives no user id yet (docs/operations/sign-in.md).
{{- end }}
{{- end }}
{{- if not .Values.administrators }}
  Administrators are those who may do everything in this cluster; `administrators` names others.
{{- end }}
{{- end }}

{{/* Whether a node has GPUs, as far as the API server knows. Argument: the Node. */}}
{{- define "gpu-booking.notesHasGpus" -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $resources := .status.capacity | default dict -}}
{{- $hinted := eq (get $labels "nvidia.com/gpu.present") "true" -}}
{{- range $name := list "pci-10de" "pci-0300_10de" "pci-0302_10de" -}}
{{- if eq (get $labels (printf "feature.node.kubernetes.io/%s.present" $name)) "true" }}{{ $hinted = true }}{{ end -}}
{{- end -}}
{{- range $name, $_ := $resources }}{{ if hasPrefix "nvidia.com/" $name }}{{ $hinted = true }}{{ end }}{{ end -}}
{{- with get (.metadata.annotations | default dict) "state.gpu-booking.io/inventory" -}}
{{- $hinted = not (empty (fromJson .).devices) -}}
{{- end -}}
{{- ternary "yes" "" $hinted -}}
{{- end }}

{{/* The GPUs that an agent has published, by model: "2 NVIDIA-A100-SXM4-80GB, 1 unhealthy". Argument: the Node. */}}
{{- define "gpu-booking.notesGpus" -}}
{{- $count := dict -}}{{- $ill := 0 -}}
{{- with get (.metadata.annotations | default dict) "state.gpu-booking.io/inventory" -}}
{{- range (fromJson .).devices -}}
{{- if not .parent -}}
{{- $_ := set $count .model (add1 (get $count .model | default 0)) -}}
{{- if eq (.health | default "healthy") "unhealthy" }}{{ $ill = add1 $ill }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $said := list -}}
{{- range $model := keys $count | sortAlpha }}{{ $said = append $said (printf "%d %s" (get $count $model | int) $model) }}{{ end -}}
{{- if $ill }}{{ $said = append $said (printf "%d unhealthy" (int $ill)) }}{{ end -}}
{{- join ", " $said -}}
{{- end }}

{{/* Why the agent gets no pod on a node; empty if it gets one. Arguments: node, values (of the agent). */}}
{{- define "gpu-booking.notesNoPod" -}}
{{- $labels := .node.metadata.labels | default dict -}}
{{- $why := "" -}}
{{- range $key, $value := .values.nodeSelector -}}
{{- if ne (get $labels $key) $value }}{{ $why = printf "nodeAgent.nodeSelector asks for the label %s=%s" $key $value }}{{ end -}}
{{- end -}}
{{- range $taint := .node.spec.taints -}}
{{- if and (ne $taint.effect "PreferNoSchedule") (not (hasPrefix "node.kubernetes.io/" $taint.key)) -}}
{{- $tolerated := false -}}
{{- range $.values.tolerations -}}
{{- $effect := or (empty .effect) (eq .effect $taint.effect) -}}
{{- $any := and (eq (.operator | default "Equal") "Exists") (or (empty .key) (eq .key $taint.key)) -}}
{{- $same := and (eq (.key | default "") $taint.key) (eq (.value | default "" | toString) ($taint.value | default "")) -}}
{{- if and $effect (or $any $same) }}{{ $tolerated = true }}{{ end -}}
{{- end -}}
{{- if not $tolerated }}{{ $why = printf "its taint %s is not in nodeAgent.tolerations" $taint.key }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $why -}}
{{- end }}

{{/* Why a node with GPUs does not serve; empty if it serves. Arguments: root, node, lease (of its agent; empty without one). */}}
{{- define "gpu-booking.notesNotServing" -}}
{{- $agent := .root.Values.nodeAgent -}}
{{- $lease := .lease -}}
{{- $renewed := ($lease.spec | default dict).renewTime -}}
{{- $age := 3600 -}}
{{- with $renewed }}{{ $age = sub (now | unixEpoch) (toDate "2006-01-02T15:04:05Z07:00" . | unixEpoch) | int }}{{ end -}}
{{- $stopping := get (($lease.metadata | default dict).annotations | default dict) "state.gpu-booking.io/stopping" -}}
{{- $ready := false -}}
{{- range .node.status.conditions }}{{ if and (eq .type "Ready") (eq .status "True") }}{{ $ready = true }}{{ end }}{{ end -}}
{{- $noPod := include "gpu-booking.notesNoPod" (dict "node" .node "values" $agent) -}}
{{- $taken := not (hasKey (.node.metadata.annotations | default dict) "state.gpu-booking.io/inventory") -}}
{{- $offered := get (.node.status.capacity | default dict) "nvidia.com/gpu" | default "0" | toString -}}
{{- if and $renewed (lt $age 60) (not $stopping) -}}
{{- else if not $ready -}}
its kubelet is not Ready
{{- else if get (.node.metadata.annotations | default dict) "state.gpu-booking.io/counted" -}}
{{- else if or (not $agent.enabled) (eq (get (.node.metadata.labels | default dict) "gpu-booking.io/without-agent") "true") -}}
its GPUs are not counted yet: the controller does that soon, if the kubelet has any
{{- else if $noPod -}}
{{ $noPod }}
{{- else if and $taken (ne $offered "0") (ne (get (.node.metadata.labels | default dict) "gpu-booking.io/device-plugin" | default $agent.devicePlugin) "existing") -}}
another device plugin gives out its {{ $offered }} GPUs; keep it with nodeAgent.devicePlugin: existing (docs/beside-nvidia.md), or change over (docs/migration-from-nvidia.md)
{{- else if $stopping -}}
its kubelet does not know the node agent, or the agent stops (docs/troubleshooting.md, "A node")
{{- else if $renewed -}}
its node agent has not answered for {{ $age }} s (docs/troubleshooting.md, "A node")
{{- else -}}
its node agent has not reported yet{{ if .root.Release.IsInstall }}: it starts now{{ end }}
{{- end -}}
{{- end }}

{{/* The nodes with GPUs: which serve, which do not and why. */}}
{{- define "gpu-booking.notesNodes" -}}
{{- $most := 20 -}}
{{- $nodes := (lookup "v1" "Node" "" "").items -}}
{{- $leases := dict -}}
{{- range (lookup "coordination.k8s.io/v1" "Lease" .Release.Namespace "").items }}{{ $_ := set $leases .metadata.name . }}{{ end -}}
{{- $serving := list -}}{{- $waiting := list -}}
{{- range $nodes -}}
{{- if include "gpu-booking.notesHasGpus" . -}}
{{- $why := include "gpu-booking.notesNotServing" (dict "root" $ "node" . "lease" (get $leases (printf "gpu-node-%s" .metadata.name) | default dict)) -}}
{{- $gpus := include "gpu-booking.notesGpus" . -}}
{{- if $why -}}
{{- $waiting = append $waiting (printf "%s does not serve: %s." .metadata.name $why) -}}
{{- else -}}
{{- $serving = append $serving (printf "%s serves%s." .metadata.name ($gpus | empty | ternary "" (printf ": %s" $gpus))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $nodes }}
  Helm has not asked the cluster: kubectl get nodes --output custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\.com/gpu'
{{- else if not (concat $serving $waiting) }}
  None of the {{ len $nodes }} nodes is known to have a GPU. The node agents, which start now, look for themselves.
{{- end }}
{{- range $lines := list $waiting $serving }}
{{- range $index, $line := $lines }}{{ if lt $index $most }}
  {{ $line }}
{{- end }}{{ end }}
{{- if gt (len $lines) $most }}
  And {{ sub (len $lines) $most }} more of these.
{{- end }}
{{- end }}
{{- end }}

{{/* What becomes of the pods that hold GPUs when GPU Booking comes. */}}
{{- define "gpu-booking.notesPods" -}}
{{- $holding := 0 -}}
{{- range (lookup "v1" "Pod" "" "").items -}}
{{- $asks := false -}}
{{- range .spec.containers -}}
{{- range $name, $_ := ((.resources | default dict).limits) }}{{ if hasPrefix "nvidia.com/" $name }}{{ $asks = true }}{{ end }}{{ end -}}
{{- end -}}
{{- if and $asks .spec.nodeName (not (has .status.phase (list "Succeeded" "Failed"))) }}{{ $holding = add1 $holding }}{{ end -}}
{{- end -}}
{{- if $holding }}
  {{ $holding }} pods that hold GPUs run on, and nothing moves them. No booking covers them: a booked pod may need their GPUs.
{{- end }}
  New pods that request GPUs are scheduled by {{ .Values.scheduler.name }}, in every namespace but {{ join ", " (append .Values.admission.excludedNamespaces .Release.Namespace) }}.
  Pods without GPUs are not touched.
{{- end }}

{{/* How GPUs without a booking are divided. A bare `off` in a file of values is false. */}}
{{- define "gpu-booking.notesShares" -}}
{{- $default := eq (include "gpu-booking.maia" .) "true" | ternary "off" "order" -}}
{{- $mode := dig "fair_shares" "mode" $default (.Values.server.policy | default dict) | toString -}}
{{- if has $mode (list "off" "false") }}
  Whoever waits longest (fair_shares.mode is off).
{{- else }}
  Whoever holds the fewest of the model (fair_shares.mode is {{ $mode }}).{{ if eq $mode "order" }} Running pods leave for bookings alone.{{ else }} Who holds more than a share gives back.{{ end }}
{{- if .Release.IsUpgrade }}
  Version 0.1.0 makes mode order the default. What changes: pods without a booking that wait get a scheduling gate until it is
  their turn, and a cluster autoscaler adds no nodes for them. To serve them by age, as before:
    --set server.policy.fair_shares.mode=off
{{- end }}
{{- end }}
{{- end }}

{{/* What of this cluster keeps pods of ours from starting: one line each; nothing where Helm may not ask. */}}
{{- define "gpu-booking.notesObstructions" -}}
{{- $namespace := lookup "v1" "Namespace" "" .Release.Namespace | default dict -}}
{{- $level := get (($namespace.metadata | default dict).labels | default dict) "pod-security.kubernetes.io/enforce" -}}
{{- if and $namespace (not $level) (eq (include "gpu-booking.distribution" .) "talos") }}{{ $level = "baseline" }}{{ end }}
{{- if and .Values.nodeAgent.enabled (has $level (list "baseline" "restricted")) }}
The namespace enforces Pod Security {{ $level }}, which the node agents cannot meet: they get no pods until
  kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=privileged --overwrite
{{- end }}
{{- with .Values.server.database }}
{{- if and (lookup "v1" "Node" "" "") (not (or .url .existingClaim .storageClassName $.Values.server.external)) }}
{{- $default := false -}}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items -}}
{{- if eq (get (.metadata.annotations | default dict) "storageclass.kubernetes.io/is-default-class") "true" }}{{ $default = true }}{{ end -}}
{{- end -}}
{{- if not $default }}
No StorageClass is the cluster's default: unless a volume is there already, the booking server waits for its volume. Name a
class in server.database.storageClassName, a claim in existingClaim, or a PostgreSQL in url.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
