// Package cri is `gantry cri`: this machine's container runtime asked directly, past API server and
// kubelet, with crictl's names of commands and flags, and the comparison of the three (diff).
package cri
