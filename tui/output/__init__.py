"""Output without a screen: reports, exports, the findings for CI, lists."""
