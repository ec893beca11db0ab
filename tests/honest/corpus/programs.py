# === sum-of-numbers
# --- code
import sys

def main():
    n = int(input())
    print(sum(map(int, sys.stdin.readline().split())) if n else 0)

if __name__ == "__main__":
    main()
# --- stdin
3
1 2 3
# --- stdout
6
