// Package nodelistertest initializes admission plugins that embed a nodelister.Handler, in tests.
package nodelistertest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Plugin is an admission plugin with such a Handler.
type Plugin interface {
	initializer.WantsExternalKubeInformerFactory
	initializer.WantsExternalKubeClientSet
	admission.InitializationValidator
}

// Initialize gives a plugin Nodes; of unseen the informer does not know yet.
func Initialize(t testing.TB, p Plugin, unseen *corev1.Node, seen ...*corev1.Node) {
	t.Helper()
	client := fake.NewClientset(unseen)
	for _, n := range seen {
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	p.SetExternalKubeInformerFactory(factory)
	p.SetExternalKubeClientSet(client)
	if err := p.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	if err := factory.Core().V1().Nodes().Informer().GetIndexer().Delete(unseen); err != nil {
		t.Fatal(err)
	}
}
