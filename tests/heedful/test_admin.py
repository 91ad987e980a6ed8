"""Models listed and changed through the Python client, on a real server."""

import asyncio
import shutil

import pytest

from heedful import Admin, AsyncClient, Client, FailedPreconditionError, NotFoundError


@pytest.fixture
def folder(tmp_path, exported_bundle):
    for version in ("1", "2"):
        shutil.copytree(exported_bundle.path, tmp_path / "models" / "reviews" / version)
    return tmp_path / "models"


def test_versions_are_listed_loaded_rolled_back_and_unloaded(start_server, folder) -> None:
    server = start_server(None, models=str(folder), allow_admin=True)
    with Client(server.address) as client:
        admin = Admin(client)
        rows = client.list_models()
        assert [(row.version, row.state, row.is_default) for row in rows] == [
            ("1", "ready", False),
            ("2", "ready", True),
        ]
        loaded = admin.load_model("reviews", "1")
        assert (loaded.previous_default_version, loaded.default_version) == ("2", "1")
        assert client.classify("A kind film").version == "1"
        assert admin.set_default_version("reviews", "2") == "1"
        assert admin.unload_model("reviews", "1") == ("1",)
        assert client.classify("A kind film").version == "2"
        with pytest.raises(NotFoundError, match="'2'"):
            client.classify("A kind film", version="1")

    async def listed():
        async with AsyncClient(server.address) as client:
            return await client.list_models()

    assert [row.version for row in asyncio.run(listed())] == ["2"]


def test_a_server_that_allows_no_changes_says_what_to_do(server) -> None:
    with (
        Client(server.address) as client,
        pytest.raises(FailedPreconditionError, match="--allow-admin"),
    ):
        Admin(client).load_model("tiny")
