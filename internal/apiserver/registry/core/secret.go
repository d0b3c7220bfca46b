package core

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func secrets() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.Secret, v1.SecretList]()
	t.NoGenerate = true
	doc := v1.Secret{}.SwaggerDoc()
	return resourcedef.Kind{
		Version: "v1", Resource: "secrets", Singular: "secret", Kind: "Secret",
		Types: t,
		Rules: typed.Rules[v1.Secret]{
			Default: defaultSecret,
			Validate: func(s, old *v1.Secret) field.ErrorList {
				if old == nil {
					return validateSecret(s)
				}
				return validateSecretUpdate(s, old)
			},
			Warn:                     warnSecret,
			SelectableFields:         func(s *v1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} },
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.StringColumn("Type", doc["type"]),
				printers.StringColumn("Data", doc["data"]), printers.AgeColumn()},
			Row: typed.RowFunc(func(s *v1.Secret, opt resourcedef.RowOptions) []any {
				return []any{s.Name, string(s.Type), int64(len(s.Data)), printers.TimestampSince(s.CreationTimestamp,
					opt.Now)}
			}),
		},
	}
}

// defaultSecret folds the write-only stringData into data, where it wins, and names the type of a
// plain secret.
func defaultSecret(s *v1.Secret) {
	for k, v := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
	if s.Type == "" {
		s.Type = v1.SecretTypeOpaque
	}
}

func validateSecret(s *v1.Secret) field.ErrorList {
	var errs field.ErrorList
	data, size := field.NewPath("data"), 0
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, dataKey(k, data)...)
		size += len(s.Data[k])
	}
	if size > v1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "" /*unused*/, v1.MaxSecretSize))
	}
	required := func(keys ...string) {
		for _, k := range keys {
			if _, ok := s.Data[k]; !ok {
				errs = append(errs, field.Required(data.Key(k), ""))
			}
		}
	}
	switch s.Type {
	case v1.SecretTypeServiceAccountToken:
		if s.Annotations[v1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(v1.ServiceAccountNameKey),
				""))
		}
	case v1.SecretTypeDockercfg:
		errs = append(errs, jsonKey(s, v1.DockerConfigKey)...)
	case v1.SecretTypeDockerConfigJson:
		errs = append(errs, jsonKey(s, v1.DockerConfigJsonKey)...)
	case v1.SecretTypeBasicAuth:
		_, user := s.Data[v1.BasicAuthUsernameKey]
		_, pass := s.Data[v1.BasicAuthPasswordKey]
		if !user && !pass {
			required(v1.BasicAuthUsernameKey, v1.BasicAuthPasswordKey)
		}
	case v1.SecretTypeSSHAuth:
		if len(s.Data[v1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(v1.SSHAuthPrivateKey), ""))
		}
	case v1.SecretTypeTLS:
		required(v1.TLSCertKey, v1.TLSPrivateKeyKey)
	}
	return errs
}

// jsonKey wants JSON under the key and never shows what is there.
func jsonKey(s *v1.Secret, key string) field.ErrorList {
	path := field.NewPath("data").Key(key)
	raw, ok := s.Data[key]
	if !ok {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := json.Unmarshal(raw, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path, "<secret contents redacted>", err.Error())}
	}
	return nil
}

func validateSecretUpdate(s, old *v1.Secret) field.ErrorList {
	errs := validation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))
	if typed.Deref(old.Immutable) {
		if !typed.Deref(s.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableMessage))
		}
		if !apiequality.Semantic.DeepEqual(s.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableMessage))
		}
	}
	return append(errs, validateSecret(s)...)
}

// warnSecret says when a TLS pair will not load.
func warnSecret(s *v1.Secret) []string {
	if s.Type != v1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[v1.TLSCertKey], s.Data[v1.TLSPrivateKeyKey]); err != nil {
		return []string{fmt.Sprint(err)}
	}
	return nil
}
