// Package devices proves devices end to end: device plugins and a driver made with
// k8s.io/dynamic-resource-allocation/kubeletplugin register over real sockets, the scheduler and
// the controllers that stand give their devices away, and the kubelet brings them into containers.
//
// In: testcluster, whose runtime is the fake one. Out: a test report. Plugins and drivers are real
// servers in the test's process; to kill one is to stop its server.
package devices
