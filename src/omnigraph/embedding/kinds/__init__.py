"""The protocols of providers: texts to a request, and a response to vectors. Pure."""
