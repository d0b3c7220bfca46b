package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"

	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
)

// journalNamespaceDecorator exempts podjournals from NamespaceLifecycle: entries about Pods of a
// terminating or deleted namespace are still accepted. Nothing of them is stored in the namespace.
type journalNamespaceDecorator struct{}

// Decorate implements admission.Decorator.
func (journalNamespaceDecorator) Decorate(p admission.Interface, name string) admission.Interface {
	if m, ok := p.(admission.MutationInterface); ok && name == lifecycle.PluginName {
		return journalExempt{m}
	}
	return p
}

// journalExempt is a mutating plugin that skips podjournals.
type journalExempt struct{ admission.MutationInterface }

// Admit implements admission.MutationInterface.
func (b journalExempt) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if r := a.GetResource(); r.Group == journal.GroupVersion.Group && r.Resource == journal.Resource {
		return nil
	}
	return b.MutationInterface.Admit(ctx, a, o)
}
