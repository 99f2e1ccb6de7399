"""Requests that go to the very addresses that were checked: a name that later leads elsewhere changes nothing."""
