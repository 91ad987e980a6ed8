# The server without torch. Runs as nobody in particular and needs nothing writable.
#
#   docker build --tag heedful .
#   docker run --read-only --publish 50051:50051 --volume "$PWD/runs/demo/reviews-onnx:/bundle:ro" heedful
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY proto proto
COPY model model
COPY export export
COPY service service
COPY cli cli
RUN python -m venv /heedful \
    && /heedful/bin/pip install --no-cache-dir --constraint constraints.txt '.[serve]'

FROM python:3.11-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin heedful
COPY --from=build /heedful /heedful
ENV PATH=/heedful/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HEEDFUL_SERVE_HOST=0.0.0.0
USER 10001
EXPOSE 50051 9100
STOPSIGNAL SIGTERM
# The standard health protocol over gRPC; `heedful info` asks it with the client.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 \
    CMD ["heedful", "info", "--target", "127.0.0.1:50051", "--ready"]
ENTRYPOINT ["heedful", "serve"]
CMD ["/bundle"]
