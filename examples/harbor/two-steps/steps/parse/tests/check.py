import sys

sys.path.insert(0, "/app")
import bill

assert bill.items("lamp,19\ncup,4\n") == [("lamp", 19), ("cup", 4)]
