"""Gradio's components in the colours of style.css."""

from __future__ import annotations

import gradio as gr

_FONT = ["system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Noto Sans", "Liberation Sans", "sans-serif"]
_MONO = ["ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace"]
_COLOURS = {
    "surface": ("body_background_fill", "background_fill_primary", "block_background_fill"),
    "raised": (
        "background_fill_secondary",
        "input_background_fill",
        "button_secondary_background_fill",
        "checkbox_label_background_fill",
    ),
    "hover": ("button_secondary_background_fill_hover",),
    "ink": (
        "body_text_color",
        "block_label_text_color",
        "block_title_text_color",
        "button_secondary_text_color",
        "checkbox_label_text_color",
        "checkbox_label_text_color_selected",
    ),
    "muted": ("body_text_color_subdued", "block_info_text_color", "input_placeholder_color"),
    "grid": ("border_color_primary", "block_border_color"),
    "edge": ("input_border_color", "button_secondary_border_color"),
    "blend": ("slider_color",),
    "soft": ("color_accent_soft", "checkbox_label_background_fill_selected"),
    "base": ("checkbox_background_color_selected", "checkbox_border_color_selected"),
    "link": ("link_text_color",),
}
_SHAPE = {
    "color_accent": "#0072b2",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_padding": "0",
    "input_border_width": "1px",
}


def theme() -> gr.themes.Base:
    """Return the theme: fonts of the reader's own machine, colours of style.css, light and dark."""
    names = {name: f"var(--re-{colour})" for colour, found in _COLOURS.items() for name in found}
    dark = {f"{name}_dark": value for name, value in names.items()}
    return gr.themes.Base(font=_FONT, font_mono=_MONO, text_size="lg").set(**names, **dark, **_SHAPE)
