// Package app is the wiring of the parts: it makes API server, scheduler, controllers, kubelet, Pod
// network, Service proxy and DNS server with what each of them needs, joins them and runs them.
//
// Up, Kubelet, Proxy and DNS are what the verbs of the same names fill in from their flags and run;
// RunServer and RunControllers are the parts that need no more than their options. Run returns when
// its context ends or a part fails, and then has ended the others. No decision about a Pod is made
// here. Only internal/cmd imports it.
package app
