# The service as a small image. Needs BuildKit (the default of Docker since 23).
ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim-bookworm AS build
WORKDIR /src
# .dockerignore lets through only what the build reads.
COPY . .
# Caches instead of a layer of dependencies: they survive a changed Cargo.lock. What is in a cache is not in
# the image, so the binary is copied out.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --bin luckybag \
    && cp target/dist/luckybag /luckybag

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin luckybag
COPY --from=build /luckybag /usr/local/bin/luckybag
# Migrations and config/default.toml are compiled in. The number, and not the name, lets an orchestrator see
# that it is not root.
USER 10001:10001
ENV LUCKYBAG__SERVER__BIND=0.0.0.0:8080
EXPOSE 8080
# Liveness only: a dependency that is down must not get the process restarted. Follows the operations port
# when one is set. The image has no HTTP client, bash is enough.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["bash", "-c", \
    "bind=${LUCKYBAG__SERVER__OPS_BIND:-$LUCKYBAG__SERVER__BIND}; exec 3<>/dev/tcp/127.0.0.1/${bind##*:} && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r -t 2 line <&3 && [[ $line == *' 200 '* ]]"]
ENTRYPOINT ["luckybag"]
CMD ["serve"]
