# A model as a server: docker build -t rankencoder . && docker run -v ./my-encoder:/models/my-encoder:ro ...
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
# the CPU's torch first: PyPI's brings CUDA along; its version is in constraints.txt
# hadolint ignore=DL3013
RUN pip install --no-cache-dir -c constraints.txt --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install --no-cache-dir -c constraints.txt '.[serve,search,explore]' \
    && useradd --uid 1000 --create-home rankencoder

USER 1000
VOLUME /models
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["rankencoder"]
CMD ["serve", "/models/my-encoder", "--host", "0.0.0.0", "--log-json"]
