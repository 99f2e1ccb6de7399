"""Resources and prompts that tools of this host make: lists, reading, completion of arguments, subscriptions."""
