package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/client-go/tools/cache"
)

// webhookSkipDecorator skips MutatingAdmissionWebhook while there are no mutating webhooks: the
// plugin would copy each object for a possible reinvocation all the same.
type webhookSkipDecorator struct{ configurations cache.SharedIndexInformer }

// Decorate implements admission.Decorator.
func (u webhookSkipDecorator) Decorate(p admission.Interface, name string) admission.Interface {
	if m, ok := p.(admission.MutationInterface); ok && name == mutating.PluginName {
		return skipWithoutWebhooks{m, u.configurations}
	}
	return p
}

// skipWithoutWebhooks is the plugin behind the check for webhook configurations.
type skipWithoutWebhooks struct {
	admission.MutationInterface
	configurations cache.SharedIndexInformer
}

// Admit implements admission.MutationInterface. The plugin gets its webhooks from the same
// informer, and not earlier.
func (b skipWithoutWebhooks) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if b.configurations.HasSynced() && len(b.configurations.GetIndexer().ListKeys()) == 0 {
		return nil
	}
	return b.MutationInterface.Admit(ctx, a, o)
}
