{{/* Whether MAIA is served, because our own value or one of the values of MAIA's chart is set. "true" or "false". */}}
{{- define "gpu-booking.maia" -}}
{{- $v := .Values }}
{{- or $v.maia.enabled (ne $v.apiUrl "") (ne $v.gpuStatsUrl "") (ne $v.apiToken "") }}
{{- end }}

{{/* The Secret with the token that MAIA's webhook sends; empty: none. */}}
{{- define "gpu-booking.maiaTokenSecret" -}}
{{- .Values.apiToken | empty | ternary .Values.maia.tokenSecret "gpu-booking-maia" }}
{{- end }}

{{/*
Refuses a URL of MAIA's that is not one of ours. Arguments: root, name (of the value), paths (that we serve there).
*/}}
{{- define "gpu-booking.ourUrl" -}}
{{- with get .root.Values .name }}
{{- $url := urlParse . }}
{{- $service := printf "gpu-booking-server.%s" $.root.Release.Namespace }}
{{- $hosts := list "gpu-booking-server" $service (print $service ".svc") (print $service ".svc.cluster.local") }}
{{- with $.root.Values.server.url }}{{ $hosts = append $hosts (urlParse .).host }}{{ end }}
{{- $host := $url.host | trimSuffix ":80" }}
{{- if not (and (has $host $hosts) (has (trimSuffix "/" $url.path) $.paths)) }}
{{- $message := "%s is %s, and GPU Booking asks no other service for bookings: it keeps them itself, and answers MAIA's webhook at http://%s%s/. Give MAIA's webhook that address, and leave %s out here or set it to the same (docs/operations/maia.md)." }}
{{- fail (printf $message $.name . $service (first $.paths) $.name) }}
{{- end }}
{{- end }}
{{- end }}
