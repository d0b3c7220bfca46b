// Package kubelet is `gantry kubelet`: the flags of a node alone, the files it takes from where
// kubeadm puts them, and the systemd unit that starts it (--print-unit). app runs the node.
package kubelet
