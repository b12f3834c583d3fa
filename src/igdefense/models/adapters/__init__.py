"""Models from other packages: RobustBench, timm, torchvision, transformers."""
