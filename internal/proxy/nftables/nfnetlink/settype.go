package nfnetlink

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Numbers of nft's data types.
const (
	typeInteger = 4
	typeIPv4    = 7
	typeIPv6    = 8
	typeService = 13
)

// setType describes the keys and values of a set or map.
type setType struct {
	parts        []string // names of nft's data types
	isVerdictMap bool
	data         *setType // what a map's values have besides a verdict; nil: nothing
}

// parseSetType parses a definition such as "ipv4_addr . inet_proto . inet_service : verdict".
func parseSetType(d rules.SetDef) (setType, error) {
	keys, data, isMap := strings.Cut(d.Type, " : ")
	k, err := typeParts(d.Name, keys)
	if err != nil || !isMap {
		return k, err
	}
	if k.isVerdictMap = data == "verdict"; k.isVerdictMap {
		return k, nil
	}
	to, err := typeParts(d.Name, data)
	k.data = &to
	return k, err
}

// typeParts parses a concatenation of types such as "ipv4_addr . inet_service".
func typeParts(set, types string) (setType, error) {
	k := setType{parts: strings.Split(types, " . ")}
	for _, p := range k.parts {
		switch p {
		case "ipv4_addr", "ipv6_addr", "inet_proto", "inet_service":
		default:
			return k, fmt.Errorf("set %s: type %s: %w", set, p, ErrUnknown)
		}
	}
	return k, nil
}

// encodeKey encodes a key. Each part begins at a multiple of four bytes, as in the kernel's
// registers.
func (k setType) encodeKey(in string) ([]byte, error) {
	texts := strings.Split(in, " . ")
	if len(texts) != len(k.parts) {
		return nil, ErrUnknown
	}
	var out []byte
	for i, part := range k.parts {
		switch part {
		case "ipv4_addr", "ipv6_addr":
			a, err := netip.ParseAddr(texts[i])
			if err != nil || a.Is4() != (part == "ipv4_addr") || a.Zone() != "" {
				return nil, ErrUnknown
			}
			out = append(out, a.AsSlice()...)
		case "inet_proto":
			n, err := protocol(texts[i])
			if err != nil {
				return nil, err
			}
			out = append(out, n, 0, 0, 0)
		case "inet_service":
			n, err := strconv.ParseUint(texts[i], 10, 16)
			if err != nil {
				return nil, ErrUnknown
			}
			out = append(binary.BigEndian.AppendUint16(out, uint16(n)), 0, 0)
		}
	}
	if len(k.parts) == 1 && k.parts[0] == "inet_service" {
		out = out[:2]
	}
	return out, nil
}

// decodeKey is the inverse of encodeKey.
func (k setType) decodeKey(key []byte) (string, error) {
	var texts []string
	take := func(n int) []byte {
		if len(key) < n {
			return nil
		}
		out := key[:n]
		key = key[n:]
		return out
	}
	for _, part := range k.parts {
		length := 4
		if part == "ipv6_addr" {
			length = 16
		}
		b := take(length)
		if b == nil {
			return "", fmt.Errorf("a key is %d bytes too short: %w", length-len(key), ErrUnknown)
		}
		switch part {
		case "inet_proto":
			texts = append(texts, protocolName(b[0]))
		case "inet_service":
			texts = append(texts, strconv.Itoa(int(binary.BigEndian.Uint16(b))))
		default:
			a, _ := netip.AddrFromSlice(b)
			texts = append(texts, a.String())
		}
	}
	return strings.Join(texts, " . "), nil
}

var protocols = map[string]byte{"tcp": 6, "udp": 17, "sctp": 132}

func protocol(name string) (byte, error) {
	if n, ok := protocols[name]; ok {
		return n, nil
	}
	n, err := strconv.ParseUint(name, 10, 8)
	if err != nil {
		return 0, ErrUnknown
	}
	return byte(n), nil
}

func protocolName(n byte) string {
	for name, number := range protocols {
		if number == n {
			return name
		}
	}
	return strconv.Itoa(int(n))
}

// verdict is an nftables verdict.
type verdict struct{ expr.Verdict }

func verdictOf(in string) (verdict, error) {
	word, chain, _ := strings.Cut(in, " ")
	switch {
	case word == "goto" && chain != "":
		return verdict{expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}}, nil
	case word == "jump" && chain != "":
		return verdict{expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}, nil
	case in == "drop":
		return verdict{expr.Verdict{Kind: expr.VerdictDrop}}, nil
	case in == "return":
		return verdict{expr.Verdict{Kind: expr.VerdictReturn}}, nil
	}
	return verdict{}, ErrUnknown
}

// text returns the verdict as package rules writes it; other verdicts are given by number, which
// equals no wanted text.
func (v verdict) text() string {
	switch v.Kind {
	case expr.VerdictGoto:
		return "goto " + v.Chain
	case expr.VerdictJump:
		return "jump " + v.Chain
	case expr.VerdictDrop:
		return "drop"
	case expr.VerdictReturn:
		return "return"
	}
	return strconv.Itoa(int(v.Kind))
}
