"""Small programs that use ProSem; each folder is one, with a README of its own."""
