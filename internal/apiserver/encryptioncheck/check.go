package encryptioncheck

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/storage/value"
	"sigs.k8s.io/yaml"
)

// Options say how values are encrypted in the store. The zero value stores them as they are.
type Options struct {
	File   string // EncryptionConfiguration of apiserver.config.k8s.io/v1
	Reload bool   // take the file's changes while running
}

// MissingKeyError says that the store holds a value which no key at hand opens.
type MissingKeyError struct {
	Resource, Key string // the key is the store's
	File          string // empty when there is none
	Err           error
}

func (e *MissingKeyError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("%s are encrypted in the store (%s) and no encryption configuration was given: name the "+
			"file they were written with by --encryption-provider-config", e.Resource, e.Key)
	}
	return fmt.Sprintf("%s: no key in %s opens %s (%v): put the key it was written with back as a further key of the "+
		"provider; it can go once every object was written anew", e.Resource, e.File, e.Key, e.Err)
}

// Unwrap returns what the library said.
func (e *MissingKeyError) Unwrap() error { return e.Err }

// encryptedPrefix begins every value that a provider encrypted.
const encryptedPrefix = "k8s:enc:"

// pageSize is how many values are read at a time.
const pageSize = 200

// Source is what a check reads.
type Source struct {
	Client       *clientv3.Client
	Prefix       func(schema.GroupResource) string // where a resource's objects lie, as /registry/secrets/
	Transformers value.ResourceTransformers        // nil without configuration
}

// Check opens every value of the resources that the file names, or, without a file, looks whether
// Secrets are encrypted.
func Check(ctx context.Context, o Options, s Source) error {
	resources := []schema.GroupResource{{Resource: "secrets"}}
	if o.File != "" {
		var err error
		if resources, err = configuredResources(o.File); err != nil {
			return err
		}
	}
	for _, gr := range resources {
		if err := s.check(ctx, o.File, gr); err != nil {
			return err
		}
	}
	return nil
}

func (s Source) check(ctx context.Context, file string, gr schema.GroupResource) error {
	prefix := s.Prefix(gr)
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		res, err := s.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return fmt.Errorf("read %s to check their encryption: %w", gr, err)
		}
		for _, kv := range res.Kvs {
			if !bytes.HasPrefix(kv.Value, []byte(encryptedPrefix)) {
				continue
			}
			if s.Transformers == nil {
				return &MissingKeyError{Resource: gr.String(), Key: string(kv.Key)}
			}
			if _, _, err := s.Transformers.TransformerForResource(gr).TransformFromStorage(ctx, kv.Value,
				value.DefaultContext(kv.Key)); err != nil {
				return &MissingKeyError{gr.String(), string(kv.Key), file, err}
			}
		}
		if !res.More {
			return nil
		}
		from = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
	}
}

// configuredResources lists the resources of a configuration; patterns stand for Secrets, the ones
// that matter most.
func configuredResources(file string) ([]schema.GroupResource, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("encryption configuration: %w", err)
	}
	var c apiserverv1.EncryptionConfiguration
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", file, err)
	}
	out := []schema.GroupResource{{Resource: "secrets"}}
	for _, r := range c.Resources {
		for _, name := range r.Resources {
			if gr := schema.ParseGroupResource(name); !strings.Contains(name, "*") && !slices.Contains(out, gr) {
				out = append(out, gr)
			}
		}
	}
	return out, nil
}
