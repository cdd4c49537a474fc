// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"maps"
	"reflect"
)

// sum adds the counters of all segments: structs of numbers, arrays of them, and maps to them.
func sum[T any](of func(*segment) T, segments []*segment) T {
	total := of(segments[0])
	for _, s := range segments[1:] {
		more := of(s)
		add(reflect.ValueOf(&total).Elem(), reflect.ValueOf(&more).Elem())
	}
	return total
}

func add(to, more reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			add(to.Field(i), more.Field(i))
		}
	case reflect.Array:
		for i := range to.Len() {
			add(to.Index(i), more.Index(i))
		}
	case reflect.Map:
		all := map[string]uint64{}
		maps.Copy(all, to.Interface().(map[string]uint64))
		for k, n := range more.Interface().(map[string]uint64) {
			all[k] += n
		}
		to.Set(reflect.ValueOf(all))
	case reflect.Int:
		to.SetInt(to.Int() + more.Int())
	default:
		to.SetUint(to.Uint() + more.Uint())
	}
}
