package audit

import (
	"errors"
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
)

// Apply gives the server its audit backend; nil options give none.
func Apply(o *options.AuditOptions, c *genericapiserver.Config) error {
	if o == nil {
		return nil
	}
	outlet := o.LogOptions.Path != "" || o.WebhookOptions.ConfigFile != ""
	switch {
	case outlet && o.PolicyFile == "":
		return errors.New("--audit-log-path and --audit-webhook-config-file record nothing without a policy: name a " +
			"file with --audit-policy-file")
	case !outlet && o.PolicyFile != "":
		return errors.New("--audit-policy-file has nowhere to write to: give --audit-log-path (- means standard " +
			"output) or --audit-webhook-config-file")
	}
	if err := errors.Join(o.Validate()...); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := o.ApplyTo(c); err != nil {
		return fmt.Errorf("audit: policy %s, log %q, webhook %q: %w", o.PolicyFile, o.LogOptions.Path,
			o.WebhookOptions.ConfigFile, err)
	}
	return nil
}
