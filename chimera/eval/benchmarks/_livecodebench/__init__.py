"""The parts of LiveCodeBench: tests, prompts, replies, and the two ways to run a program."""
