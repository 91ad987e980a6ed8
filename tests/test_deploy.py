"""The compose file and the image keep what the operator was promised."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def compose() -> dict:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))


def test_containers_are_read_only_and_without_privileges() -> None:
    for name, service in compose()["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last_stage = dockerfile.rsplit("\nFROM ", maxsplit=1)[1]
    user = next(line for line in last_stage.splitlines() if line.startswith("USER "))
    assert int(user.split()[1]) > 0
    assert "torch" not in dockerfile.replace("# The server without torch.", "")


def test_docker_waits_longer_than_the_server_drains() -> None:
    server = compose()["services"]["server"]
    grace = float(server["environment"]["HEEDFUL_SERVE_GRACE"])
    assert float(server["stop_grace_period"].removesuffix("s")) > grace


def test_prometheus_scrapes_the_port_that_the_server_serves_metrics_on() -> None:
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (job,) = scrape["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["server:9100"]}]
    from service.config import ServerConfig

    assert ServerConfig.metrics_port == 9100
    assert ServerConfig.port == 50051
