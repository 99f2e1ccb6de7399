"""What every provider over HTTP needs: connections, time limits, server-sent events, errors. See README.md."""
