// Package testcluster runs a Kubernetes cluster inside a Go test: API server over etcd, scheduler,
// controllers, and nodes whose containers are scripts.
//
//	func TestOperator(t *testing.T) {
//		c := testcluster.Start(t)
//		c.On(testcluster.Match{Image: "worker"},
//			testcluster.Script{Sh: "echo working; sleep 1; exit 3"})
//		client := kubernetes.NewForConfigOrDie(c.Config)
//		…
//	}
//
// Everything is Gantry itself: requests go through authentication, authorization, admission,
// validation and etcd; Pods are placed by the real plugins and live by the real kubelet. Only the
// container runtime is a fake, which passes the same conformance suite as containerd. No
// privileges, no ports, no network. A cluster is up in well under a second and is gone with its
// test.
package testcluster
