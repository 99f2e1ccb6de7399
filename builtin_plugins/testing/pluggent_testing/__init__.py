"""For the tests of plugins and applications: fakes, fixtures, conformance suites."""
