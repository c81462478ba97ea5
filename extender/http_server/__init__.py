"""HTTP: where the verbs are served, who may ask, and what each request must look like."""
