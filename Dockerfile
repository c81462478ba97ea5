# The product's images, one target each: node-agent, extender, booking. `make image` builds all three.
#
# BASE is any image with Python 3.11 to 3.14 as `python3`, the usual certificate authorities and the time zones.
# If it lacks Python's venv, it must be of Debian's kind, so that apt-get can add venv to the build stages.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS tools
RUN python3 -c 'import ensurepip, venv' 2>/dev/null \
    || { apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv; }
WORKDIR /build
# A company's own authorities may be among those that the builder trusts: they are a secret mount, and get into no layer.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_REQUIRE_HASHES=1 UV_LINK_MODE=copy
COPY requirements/uv.txt requirements/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m venv tools \
    && tools/bin/pip --disable-pip-version-check install -q --no-cache-dir --require-hashes -r requirements/uv.txt

FROM tools AS node-agent-files
COPY requirements/deviceplugin.txt requirements/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    tools/bin/uv pip install -q --python python3 --only-binary :all: --target /opt/gpu-booking \
      -r requirements/deviceplugin.txt
COPY LICENSE /opt/gpu-booking/
COPY cluster /opt/gpu-booking/cluster
COPY deviceplugin /opt/gpu-booking/deviceplugin
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-booking/cluster /opt/gpu-booking/deviceplugin

FROM tools AS extender-files
COPY requirements/extender.txt requirements/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    tools/bin/uv pip install -q --python python3 --only-binary :all: --target /opt/gpu-booking \
      -r requirements/extender.txt
COPY LICENSE /opt/gpu-booking/
COPY cluster /opt/gpu-booking/cluster
COPY extender /opt/gpu-booking/extender
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-booking/cluster /opt/gpu-booking/extender

FROM tools AS booking-files
COPY requirements/booking.txt requirements/
RUN --mount=type=secret,id=authorities,target=/etc/ssl/certs/ca-certificates.crt \
    tools/bin/uv pip install -q --python python3 --only-binary :all: --target /opt/gpu-booking \
      -r requirements/booking.txt
COPY LICENSE /opt/gpu-booking/
COPY cluster /opt/gpu-booking/cluster
COPY booking /opt/gpu-booking/booking
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-booking/cluster /opt/gpu-booking/booking

# What all three run in. They write nothing there, so the root file system may be read-only.
FROM ${BASE} AS runtime
# They write no byte code either: what the base has not compiled of Python's own library would be compiled at every start.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash -x '(site|dist)-packages' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
ENV PYTHONPATH=/opt/gpu-booking PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /
USER 65532:65532

# Root, because the kubelet's sockets and the devices belong to root; it needs no capability.
FROM runtime AS node-agent
USER 0:0
COPY --from=node-agent-files /opt/gpu-booking /opt/gpu-booking
ENTRYPOINT ["python3", "-m", "deviceplugin"]

FROM runtime AS extender
COPY --from=extender-files /opt/gpu-booking /opt/gpu-booking
ENTRYPOINT ["python3", "-m", "extender"]

# Booking server and controller, and the commands for administrators (`gpu-booking backup`).
FROM runtime AS booking
COPY --from=booking-files /opt/gpu-booking /opt/gpu-booking
ENTRYPOINT ["python3", "-m"]
CMD ["booking.server"]
