// The kimi_k3 program.
int main() { return 0; }
