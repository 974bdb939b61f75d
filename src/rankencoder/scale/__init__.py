"""Past one machine: encoding, indexing and building a reference corpus on a Ray cluster.

The functions are in modules of their own, since machines that only read need not load what encodes:
`cluster_encoding`, `cluster_indexing` and `cluster_sampling`.
"""
