"""Files and folders that grow: new files are found, and each is read on from where it was."""
