// Package faults kills real processes under real containers and checks that nothing is lost,
// doubled or left: the API server, the kubelet, containerd and shims die by SIGKILL while Pods come
// and go.
//
// Root only. The same with a fake runtime, much faster and two hundred times over, is
// testcluster/faults. In: flags -schedules, -seed, -pods. Out: a test report that names the seed of
// what failed. To add a fault: a row in faults.
package faults
