// Package app makes a scheduler with plugins of your own compiled in.
//
// Plugins implement k8s.io/kube-scheduler/framework and are enabled and configured by name in a
// KubeSchedulerConfiguration file, as built-in ones are. The command takes kube-scheduler's flags
// and works against any Kubernetes API server, as the only scheduler or beside others.
//
// In: options. Out: a command for main to run:
//
//	// cli is k8s.io/component-base/cli
//	os.Exit(cli.Run(app.New(app.WithPlugin("Quiet", quiet.New))))
//
// examples/custom-scheduler is a whole module that does so.
package app
