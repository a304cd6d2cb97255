"""FLOPs and bytes of ops, and how close to the GPU's peaks they ran. Every figure here is inferred."""
