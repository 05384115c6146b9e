"""nginx on loopback, where it is installed: to measure against, and to stand behind."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ("NGINX_OBSTACLE", "configure_nginx")

NGINX_OBSTACLE = None if shutil.which("nginx") else "nginx is not installed"
"""Why it cannot run here."""

_CONFIGURATION = """
worker_processes 1;
error_log stderr error;
pid {folder}/nginx.pid;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  {http}
}}
"""


def configure_nginx(folder: Path, http: str) -> list[str]:
    """Write a configuration of nginx with this ``http`` block; the command that starts it."""
    path = folder / "nginx.conf"
    path.write_text(_CONFIGURATION.format(folder=folder, http=http))
    return ["nginx", "-p", str(folder), "-c", str(path), "-g", "daemon off;"]
