"""An object store on this machine, which can be away for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "units"


class Objects:
    """moto's S3; what is in it survives being away."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, self.port = self._server.get_host_and_port()
        self.url = f"http://{host}:{self.port}"

    def make_bucket(self) -> None:
        boto3.client("s3", endpoint_url=self.url, region_name="us-east-1").create_bucket(
            Bucket=BUCKET
        )

    def names(self) -> list[str]:
        """The names of all objects."""
        client = boto3.client("s3", endpoint_url=self.url, region_name="us-east-1")
        return [one["Key"] for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def leave(self) -> None:
        self._server.stop()

    def come_back(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", port=self.port, verbose=False)
        self._server.start()

    def away_for(self, seconds: float) -> threading.Timer:
        """Refuse every connection from now on, and come back after a while."""
        self.leave()
        timer = threading.Timer(seconds, self.come_back)
        timer.start()
        return timer


@contextmanager
def object_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    """The store, found by this process and by those it starts."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    objects = Objects()
    monkeypatch.setenv("AWS_ENDPOINT_URL", objects.url)
    objects.make_bucket()
    yield objects
    objects.leave()
