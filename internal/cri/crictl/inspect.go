package crictl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// Status is one status response: the CRI message and the runtime's verbose info.
type Status struct {
	Status proto.Message
	Info   map[string]string
}

// Inspect prints statuses as crictl does: one as an object {info…, status}, several as a list.
func Inspect(out io.Writer, form string, list ...Status) error {
	var all []any
	for _, s := range list {
		raw, err := asJSON(s.Status)
		if err != nil {
			return err
		}
		one := map[string]any{}
		for key, text := range s.Info {
			if json.Valid([]byte(text)) {
				one[key] = json.RawMessage(text)
			} else {
				one[key] = text
			}
		}
		one["status"] = json.RawMessage(raw)
		all = append(all, one)
	}
	var v any = all
	if len(all) == 1 {
		v = all[0]
	}
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return write(out, form, raw)
}

// message prints a response of the runtime.
func message(out io.Writer, form string, m proto.Message) error {
	raw, err := asJSON(m)
	if err != nil {
		return err
	}
	return write(out, form, raw)
}

func write(out io.Writer, form string, raw []byte) (err error) {
	if form == "yaml" {
		if raw, err = yaml.JSONToYAML(raw); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n", bytes.TrimRight(raw, "\n"))
	return err
}

// asJSON encodes all fields, unset ones too. protojson varies its white space on purpose; indenting
// again makes it stable.
func asJSON(m proto.Message) ([]byte, error) {
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%T as JSON: %w", m, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Text formats a request or response in protobuf's text format under its own name.
func Text(m proto.Message) string {
	return fmt.Sprintf("%s {\n%s}", m.ProtoReflect().Descriptor().Name(),
		prototext.MarshalOptions{Multiline: true, Indent: "    "}.Format(m))
}
