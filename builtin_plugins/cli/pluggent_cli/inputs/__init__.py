"""What goes into a turn: text from arguments, standard input, files and templates; attachments, models, parameters."""
